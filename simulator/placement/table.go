// Package placement puts long-running services that disturb each other onto nodes.
//
// A service (app) runs in containers; how fast each one is depends on what else is on its node, which a Table says for every
// pattern of containers a node can hold. A Problem is a batch of containers for a Cluster of nodes, a Placement says what each
// node gets, and Evaluate what that is worth. Methods are in the packages below: exact, baseline, learned.
//
// The terms and the first measured table are those of Metis (Wang, Weng, Wang, Chen, Li, SC 2020).
package placement

import (
	"errors"
	"fmt"
	"math"
)

// Table says how fast containers are on a node of one type, for every pattern: how many containers of each app are there. It does
// not change and may be used by several goroutines.
//
// Patterns are numbered from 0, the empty node, by size and then in lexicographic order; there are C(apps+capacity, apps).
type Table struct {
	apps     []string
	capacity int
	counts   []uint8   // patterns × apps
	rps      []float64 // patterns × apps
	total    []float64
	ways     [][]int // ways[a][s]: patterns of a apps of exactly s containers
}

// maxPatterns bounds a table: 64 Mi numbers.
const maxPatterns = 4 << 20

// NewTable asks rate for every pattern: it fills rps with the throughput of one container of each app, relative to one alone on a
// node; what it says of apps that are not there is not used. Capacity is the number of containers a node holds, at most 255.
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

// Apps are the names of the apps.
func (t *Table) Apps() []string { return t.apps }

// Capacity is the number of containers that a node holds.
func (t *Table) Capacity() int { return t.capacity }

// Patterns is the number of patterns.
func (t *Table) Patterns() int { return len(t.total) }

// Counts are the containers of each app in a pattern; not to be changed.
func (t *Table) Counts(pattern int) []uint8 {
	n := len(t.apps)
	return t.counts[pattern*n : (pattern+1)*n : (pattern+1)*n]
}

// RPS is the throughput of one container of each app in a pattern, relative to one alone; 0 where there is none. Not to be changed.
func (t *Table) RPS(pattern int) []float64 {
	n := len(t.apps)
	return t.rps[pattern*n : (pattern+1)*n : (pattern+1)*n]
}

// Throughput is the sum over the containers of a pattern.
func (t *Table) Throughput(pattern int) float64 { return t.total[pattern] }

// Index is the number of the pattern with these counts, −1 when there is none. O(apps × capacity).
func (t *Table) Index(counts []uint8) int {
	size := 0
	for _, k := range counts {
		size += int(k)
	}
	if len(counts) != len(t.apps) || size > t.capacity {
		return -1
	}
	n, at := len(t.apps), 0
	for s := range size {
		at += t.ways[n][s]
	}
	left := size
	for a, k := range counts[:n-1] {
		for j := range int(k) {
			at += t.ways[n-1-a][left-j]
		}
		left -= int(k)
	}
	return at
}
