package resources

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// exclusiveWait bounds the wait for other processes at each of three steps of a start: GPUs, CPUs and cgroups.
var exclusiveWait = time.Second / 3

// reserve calls choose with what is reserved, and reserves its result until release: when a process shows what it has, or none
// will. A reservation is a socket with an abstract name: the kernel lists it to every user and removes it with its process.
// In a network namespace one process at a time chooses from a kind. Where there are no such sockets nothing is reserved.
func reserve(kind string, choose func(reserved []string) []string) (release func()) {
	defer exclusive(kind)()
	name := "@optimize/" + kind + "/"
	var reserved []string
	sockets, _ := os.ReadFile(procRoot + "/net/unix")
	for line := range strings.Lines(string(sockets)) {
		if _, what, ok := strings.Cut(line, " "+name); ok {
			reserved = append(reserved, what[:max(strings.LastIndexByte(what, '/'), 0)])
		}
	}
	var held []*net.UnixConn
	for _, what := range choose(reserved) {
		if s := bind(name+what+"/"+rand.Text(), 0); s != nil {
			held = append(held, s)
		}
	}
	return func() {
		for _, s := range held {
			s.Close()
		}
	}
}

// exclusive keeps other processes of the network namespace from the steps of a name until end; it does not wait for a stuck one.
func exclusive(name string) (end func()) {
	lock := bind("@optimize/"+name, exclusiveWait)
	if lock == nil {
		return func() {}
	}
	return func() { lock.Close() }
}

// nameOn returns a name of steps on the machine of a tree: a recorded tree is another machine.
func nameOn(kind, tree string) string {
	return fmt.Sprintf("%s-%08x", kind, crc32.ChecksumIEEE([]byte(tree)))
}

// bind returns a socket that has a name, once no other has it; nil if that is not possible.
func bind(name string, wait time.Duration) *net.UnixConn {
	for end := time.Now().Add(wait); ; time.Sleep(2 * time.Millisecond) {
		s, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
		if !errors.Is(err, unix.EADDRINUSE) || !time.Now().Before(end) {
			return s
		}
	}
}

// Pick returns n devices of the host, nil if it has fewer: those that the job has, if they are n; else of the model of its first
// one if possible, those with the fewest processes, which are the given ones and those whose CUDA_VISIBLE_DEVICES names them, as
// it does before they use them. Slices of one device count as separate devices. Until release, other jobs that start on this
// machine do not choose them.
func (h Host) Pick(n int, has []string, processes func() map[string]int) (ids []string, release func()) {
	choose := func(running map[string]int, taken []string) []string {
		load := map[int]int{}
		for i, g := range h.GPUs {
			if load[i] = running[g.UUID]; g.Name != h.GPUs[0].Name {
				load[i] += math.MaxInt32
			}
			for _, name := range taken {
				if name == g.UUID || name == strconv.Itoa(g.Index) {
					load[i]++
				}
			}
		}
		for _, i := range leastLoaded(slices.Sorted(maps.Keys(load)), nil, load, n) {
			ids = append(ids, h.GPUs[i].UUID)
		}
		return ids
	}
	elsewhere := h.Described != "" || h.Nodes > 0 // an engine chooses
	switch {
	case len(has) == n && elsewhere:
		return has, func() {}
	case len(has) == n:
		return has, reserve("gpus", func([]string) []string { return has })
	case n > len(h.GPUs):
		return nil, func() {}
	case n == len(h.GPUs) || elsewhere: // no choice
		return choose(nil, nil), func() {}
	}
	running := processes()
	release = reserve("gpus", func(reserved []string) []string { return choose(running, append(reserved, visibleElsewhere()...)) })
	return ids, release
}

// visibleElsewhere returns the devices in CUDA_VISIBLE_DEVICES of every process, except those of other users.
func visibleElsewhere() (devices []string) {
	processes, _ := filepath.Glob(procRoot + "/[0-9]*/environ")
	for _, path := range processes {
		environ, _ := os.ReadFile(path)
		if _, list, ok := strings.Cut("\x00"+string(environ), "\x00CUDA_VISIBLE_DEVICES="); ok {
			list, _, _ = strings.Cut(list, "\x00")
			devices = append(devices, strings.Split(list, ",")...)
		}
	}
	return devices
}
