package colocate

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watch is what is observed of the threads of a program at intervals.
type watch struct {
	threads       map[int]*thread
	looks, asleep int // observations, and those in which no thread was runnable
}

// thread contains the first and the last observation of a thread.
type thread struct{ first, last times }

// times are the times, in seconds, that a thread ran and waited for a CPU until a moment.
type times struct {
	at        time.Time
	run, wait float64
}

// look adds an observation of the threads of processes. Where the kernel keeps no waiting times, nothing is added.
func (w *watch) look(pids []int) {
	seen, runnable := false, false
	for _, pid := range pids {
		folders, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, folder := range folders {
			sched, err1 := os.ReadFile(folder + "/schedstat")
			stat, err2 := os.ReadFile(folder + "/stat")
			tid, err3 := strconv.Atoi(filepath.Base(folder))
			if err1 != nil || err2 != nil || err3 != nil {
				continue // it has ended
			}
			now, state, ok := parseThread(string(sched), stat)
			if !ok {
				continue
			}
			now.at = time.Now()
			if w.threads[tid] == nil {
				w.threads[tid] = &thread{first: now}
			}
			w.threads[tid].last = now
			seen, runnable = true, runnable || state == 'R'
		}
	}
	if seen {
		w.looks++
		if !runnable {
			w.asleep++
		}
	}
}

// parseThread reads the times and the state of a thread from the content of its files schedstat and stat.
func parseThread(sched string, stat []byte) (t times, state byte, ok bool) {
	f := strings.Fields(sched)
	rest := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 2 || len(rest) == 0 {
		return t, 0, false
	}
	run, err1 := strconv.ParseFloat(f[0], 64)
	wait, err2 := strconv.ParseFloat(f[1], 64)
	return times{run: run / 1e9, wait: wait / 1e9}, rest[0], err1 == nil && err2 == nil
}

// demand returns the CPUs that a program would have used if it had never waited for one: its CPU time in the time that it
// slept, when no thread was runnable, and in the time that it would have taken to run, with as many threads at a time as
// were runnable when it was awake. 0 without observations.
//
// The kernel records a wait when it ends, so that the time that the busiest thread neither ran nor waited is an upper
// limit of the sleep; the share of observations that found no runnable thread, with two standard errors, is another.
func (w *watch) demand() float64 {
	life, run, runnable, sleep := 0.0, 0.0, 0.0, math.Inf(1)
	for _, t := range w.threads {
		l, r, wait := t.last.at.Sub(t.first.at).Seconds(), t.last.run-t.first.run, t.last.wait-t.first.wait
		life, run, runnable = math.Max(life, l), run+r, runnable+r+wait
		sleep = math.Min(sleep, math.Max(0, l-r-wait))
	}
	if life <= 0 || run <= 0 {
		return 0
	}
	s, n := float64(w.asleep)/float64(w.looks), float64(w.looks)
	sleep = math.Min(sleep, life*math.Min(1, s+2*math.Sqrt(s*(1-s)/n)))
	parallel := math.Max(1, runnable/math.Max(life-sleep, runnable/float64(len(w.threads))))
	return run / (run/parallel + sleep)
}

// undisturbed returns the CPUs that programs would use without foreign programs: foreign CPUs are added to the programs
// that got least, up to their demands, as a fair scheduler does. All values are in CPUs, of a node of the given number.
// O(n) per bisection step.
func undisturbed(used, demands []float64, foreign, cpus float64) []float64 {
	total, most, high := foreign, 0.0, 0.0
	for i, u := range used {
		total += u
		most += math.Max(u, demands[i])
		high = math.Max(high, math.Max(u, demands[i]))
	}
	total = math.Min(math.Min(total, most), cpus)
	out := make([]float64, len(used))
	fill := func(level float64) (sum float64) {
		for i, u := range used {
			out[i] = math.Max(u, math.Min(demands[i], level))
			sum += out[i]
		}
		return sum
	}
	low := 0.0
	for range 60 {
		if level := (low + high) / 2; fill(level) > total {
			high = level
		} else {
			low = level
		}
	}
	fill(low)
	return out
}
