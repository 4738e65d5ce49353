package schedule

import (
	"math/bits"
	"slices"
)

// freeDevices tracks the idle devices by type and server. Devices of a server have consecutive numbers.
type freeDevices struct {
	types    []freeOfType
	noSpread bool // see EngineOptions.NoSpread
}

// freeOfType contains the devices of one type.
type freeOfType struct {
	perServer int
	free      int // number of free devices
	taken     []bool
	absent    []bool      // see EngineOptions.Absent; they are taken
	size      []int       // number of devices by server, without absent ones
	idle      []int       // number of free devices by server
	having    []serverSet // by number of free devices: the servers with that many, without those withheld
	withheld  []int       // servers on which nothing starts, see Engine.reserve
}

// serverSet is a set of servers whose smallest member is found quickly.
type serverSet struct {
	words []uint64
	from  int // no word before it has a member
}

func (s *serverSet) add(server int) {
	s.words[server/64] |= 1 << (server % 64)
	s.from = min(s.from, server/64)
}

func (s *serverSet) remove(server int) { s.words[server/64] &^= 1 << (server % 64) }

// first returns the smallest member; −1: the set is empty.
func (s *serverSet) first() int {
	for ; s.from < len(s.words); s.from++ {
		if w := s.words[s.from]; w != 0 {
			return 64*s.from + bits.TrailingZeros64(w)
		}
	}
	return -1
}

func (f *freeDevices) init(devices []DeviceType, absent [][]int32) {
	f.types = make([]freeOfType, len(devices))
	for d := range devices {
		per, total := max(devices[d].PerServer, 1), devices[d].Count
		if absent != nil {
			total += len(absent[d])
		}
		servers := (total + per - 1) / per
		k := freeOfType{
			perServer: per, free: devices[d].Count, taken: make([]bool, total), absent: make([]bool, total), size: make([]int, servers),
			having: make([]serverSet, min(per, total)+1),
		}
		if absent != nil {
			for _, g := range absent[d] {
				k.taken[g], k.absent[g] = true, true
			}
		}
		for g, gone := range k.absent {
			if !gone {
				k.size[g/per]++
			}
		}
		k.idle = slices.Clone(k.size)
		for c := range k.having {
			k.having[c] = serverSet{words: make([]uint64, (servers+63)/64)}
		}
		for server, idle := range k.idle {
			k.having[idle].add(server)
		}
		f.types[d] = k
	}
}

// free releases the devices of a slot.
func (f *freeDevices) free(s slot) {
	k := &f.types[s.Device]
	for _, g := range s.Where {
		k.taken[g] = false
		k.change(int(g)/k.perServer, 1)
	}
}

// take allocates devices: those of last if all of them are free, else on as few servers as possible, preferring
// servers that are left with the fewest free devices. spread reports that more servers are used than the number of
// devices requires. O(devices per server) for each server, and a scan of a few words of 64 servers.
func (f *freeDevices) take(device, gpus int, where []int32, last *slot) (taken []int32, spread bool) {
	k := &f.types[device]
	if last.Device == device && len(last.Where) == gpus && !slices.ContainsFunc(last.Where, func(g int32) bool { return k.taken[g] }) && !(f.noSpread && (k.spread(last.Where) || k.withholds(last.Where))) {
		where = append(where, last.Where...)
		for _, g := range where {
			k.take(int(g))
		}
	} else {
		where = f.fresh(k, gpus, where)
	}
	return where, k.spread(where)
}

// spread reports whether devices are on more servers than their number requires.
func (k *freeOfType) spread(where []int32) bool {
	servers := 1
	for i := 1; i < len(where); i++ {
		if int(where[i])/k.perServer != int(where[i-1])/k.perServer {
			servers++
		}
	}
	return servers > (len(where)+k.perServer-1)/k.perServer
}

// fits reports whether a number of devices is free on one server or, if that is more than a server has, on whole servers.
func (k *freeOfType) fits(gpus int) bool {
	if gpus > k.perServer {
		idle := 0
		for server, n := range k.idle {
			if n == k.perServer && !slices.Contains(k.withheld, server) {
				idle++
			}
		}
		return gpus%k.perServer == 0 && idle >= gpus/k.perServer
	}
	for c := gpus; c < len(k.having); c++ {
		if k.having[c].first() >= 0 {
			return true
		}
	}
	return false
}

// withholds reports whether one of some devices is on a server on which nothing starts.
func (k *freeOfType) withholds(where []int32) bool {
	return slices.ContainsFunc(where, func(g int32) bool { return slices.Contains(k.withheld, int(g)/k.perServer) })
}

func (k *freeOfType) take(g int) {
	k.taken[g] = true
	k.change(g/k.perServer, -1)
}

// change adds n to the number of free devices of a server.
func (k *freeOfType) change(server, n int) {
	k.having[k.idle[server]].remove(server)
	k.idle[server] += n
	if !slices.Contains(k.withheld, server) {
		k.having[k.idle[server]].add(server)
	}
	k.free += n
}

// fresh allocates devices on the tightest servers.
func (f *freeDevices) fresh(k *freeOfType, gpus int, where []int32) []int32 {
	for left := gpus; left > 0; {
		server := k.tightest(left)
		for g := server * k.perServer; g < len(k.taken) && g < (server+1)*k.perServer && left > 0; g++ {
			if !k.taken[g] {
				k.take(g)
				where = append(where, int32(g))
				left--
			}
		}
	}
	return where
}

// tightest returns the first server with the smallest sufficient number of free devices or, if none suffices, with
// the largest number.
func (k *freeOfType) tightest(gpus int) int {
	for c := gpus; c < len(k.having); c++ {
		if server := k.having[c].first(); server >= 0 {
			return server
		}
	}
	for c := min(gpus, len(k.having)) - 1; c > 0; c-- {
		if server := k.having[c].first(); server >= 0 {
			return server
		}
	}
	return 0
}
