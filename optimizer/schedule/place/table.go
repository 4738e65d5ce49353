// Package place places long-running services that interfere with each other on nodes.
//
// A service (app) runs in containers. The throughput of each container depends on the other containers of its node; a
// Table contains it for every combination of containers (pattern) that a node can hold. A Problem is a batch of
// containers for nodes of several types, a Placement is the assignment of containers to nodes, and Evaluate computes
// its metrics. Exact and Greedy maximize throughput, Stream places containers that arrive and depart; simulator/ancestors/metis
// has further methods (rules, Medea, trained agents) and lists all of them by name. Tables come from measurements
// (ReadSamples) or, where some are missing, from a regression forest (CompleteTable).
//
// The terms and the first measured table are those of Metis (Wang, Weng, Wang, Chen, Li, SC 2020).
//
//	p := &place.Problem{Types: []place.NodeType{{Count: 6, Table: place.MetisTable()}}, Batch: []int{2, 2, 2, 2, 2, 2, 2}}
//	s, err := place.Exact(ctx, p, place.Objective{}, place.Limits{}, place.ExactSettings{})
//	w, err := p.Evaluate(s.Placement) // w.MeanRPS is 1.2214
package place

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// Table contains the throughput of containers on a node of one type for every pattern, that is, every number of
// containers of each app. It is immutable and safe for concurrent use.
//
// Patterns are numbered from 0, the empty node, by size and then in lexicographic order. There are C(apps+capacity,
// apps) of them.
type Table struct {
	apps     []string
	capacity int
	counts   []uint8   // patterns × apps
	rps      []float64 // patterns × apps
	total    []float64
	ways     [][]int // ways[a][s]: number of patterns of a apps with exactly s containers
	size     []int   // by number of containers: number of smaller patterns
	before   []int   // by app, containers from it on, containers of it: number of patterns with fewer of it

	once        sync.Once
	plus, minus []int32 // patterns × apps: pattern with one container more or less; −1: none
}

// maxPatterns limits a table to 4 Mi patterns.
const maxPatterns = 4 << 20

// NewTable builds a table by calling rate for every pattern. rate fills rps with the throughput of one container of
// each app, relative to a container alone on a node; its values for absent apps are ignored. capacity is the number
// of containers per node, 1 to 255. It returns an error for more than 4 Mi patterns and for throughputs that are
// negative, infinite or NaN.
func NewTable(apps []string, capacity int, rate func(counts []uint8, rps []float64)) (*Table, error) {
	n := len(apps)
	if n == 0 || capacity < 1 || capacity > 255 {
		return nil, fmt.Errorf("throughput table: %d apps, %d containers a node: want at least 1 app and 1 to 255 containers", n, capacity)
	}
	t := &Table{apps: apps, capacity: capacity}
	t.ways = make([][]int, n+1)
	for a := range t.ways {
		t.ways[a] = make([]int, capacity+1)
		for s := range t.ways[a] {
			switch {
			case s == 0:
				t.ways[a][s] = 1
			case a > 0:
				t.ways[a][s] = t.ways[a-1][s] + t.ways[a][s-1]
			}
			if t.ways[a][s] > maxPatterns {
				return nil, errors.New("throughput table: more than 4 Mi patterns")
			}
		}
	}
	patterns := 0
	for s := range capacity + 1 {
		if patterns += t.ways[n][s]; patterns > maxPatterns {
			return nil, errors.New("throughput table: more than 4 Mi patterns")
		}
	}
	t.number()
	t.counts = make([]uint8, 0, patterns*n)
	c := make([]uint8, n)
	var fill func(app, left int)
	fill = func(app, left int) {
		if app == n-1 {
			c[app] = uint8(left)
			t.counts = append(t.counts, c...)
			return
		}
		for k := 0; k <= left; k++ {
			c[app] = uint8(k)
			fill(app+1, left-k)
		}
	}
	for s := range capacity + 1 {
		fill(0, s)
	}
	t.rps, t.total = make([]float64, patterns*n), make([]float64, patterns)
	for p := range patterns {
		counts, rps := t.Counts(p), t.RPS(p)
		rate(counts, rps)
		for a, k := range counts {
			if k == 0 {
				rps[a] = 0
			} else if !(rps[a] >= 0) || math.IsInf(rps[a], 1) {
				return nil, fmt.Errorf("throughput table: %v containers: app %s runs at %v", counts, apps[a], rps[a])
			}
			t.total[p] += float64(k) * rps[a]
		}
	}
	return t, nil
}

// number computes size and before, which Index adds up.
func (t *Table) number() {
	n, width := len(t.apps), t.capacity+1
	t.size, t.before = make([]int, width), make([]int, n*width*width)
	for s := 1; s < width; s++ {
		t.size[s] = t.size[s-1] + t.ways[n][s-1]
	}
	for a := range n - 1 {
		for left := range width {
			row := t.before[(a*width+left)*width : (a*width+left+1)*width]
			for k := 1; k <= left; k++ {
				row[k] = row[k-1] + t.ways[n-1-a][left-k+1]
			}
		}
	}
}

// Apps returns the names of the apps. The caller must not modify them.
func (t *Table) Apps() []string { return t.apps }

// Capacity returns the number of containers that a node holds.
func (t *Table) Capacity() int { return t.capacity }

// Patterns returns the number of patterns.
func (t *Table) Patterns() int { return len(t.total) }

// Counts returns the number of containers of each app in a pattern. The caller must not modify it.
func (t *Table) Counts(pattern int) []uint8 {
	n := len(t.apps)
	return t.counts[pattern*n : (pattern+1)*n : (pattern+1)*n]
}

// RPS returns the throughput of one container of each app in a pattern, relative to a container alone; 0 for absent
// apps. The caller must not modify it.
func (t *Table) RPS(pattern int) []float64 {
	n := len(t.apps)
	return t.rps[pattern*n : (pattern+1)*n : (pattern+1)*n]
}

// Throughput returns the total throughput of the containers of a pattern.
func (t *Table) Throughput(pattern int) float64 { return t.total[pattern] }

// Index returns the number of the pattern with the given counts, or −1 if none exists. O(apps).
func (t *Table) Index(counts []uint8) int {
	if len(counts) != len(t.apps) {
		return -1
	}
	left := 0
	for _, k := range counts {
		left += int(k)
	}
	if left > t.capacity {
		return -1
	}
	width := t.capacity + 1
	at := t.size[left]
	for a, k := range counts {
		at += t.before[(a*width+left)*width+int(k)]
		left -= int(k)
	}
	return at
}

// Plus returns the pattern with one more container of an app, or −1 if the node is full. O(1) after the first call.
func (t *Table) Plus(pattern, app int) int {
	t.once.Do(t.link)
	return int(t.plus[pattern*len(t.apps)+app])
}

// Minus returns the pattern with one container less of an app, or −1 if the pattern contains none. O(1) after the
// first call.
func (t *Table) Minus(pattern, app int) int {
	t.once.Do(t.link)
	return int(t.minus[pattern*len(t.apps)+app])
}

// link computes plus and minus. O(patterns × apps × (apps + capacity)).
func (t *Table) link() {
	n := len(t.apps)
	t.plus, t.minus = make([]int32, len(t.counts)), make([]int32, len(t.counts))
	for i := range t.minus {
		t.plus[i], t.minus[i] = -1, -1
	}
	c := make([]uint8, n)
	for p := range t.Patterns() {
		copy(c, t.Counts(p))
		for a := range c {
			c[a]++
			if to := t.Index(c); to >= 0 {
				t.plus[p*n+a], t.minus[to*n+a] = int32(to), int32(p)
			}
			c[a]--
		}
	}
}
