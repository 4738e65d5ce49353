package rounds

import "slices"

// floor tracks the free devices by type and server. Devices of a server have consecutive numbers.
type floor struct {
	kinds []floorKind
}

// floorKind contains the devices of one type.
type floorKind struct {
	perServer int
	taken     []bool
	idle      []int // number of free devices by server
}

func (f *floor) init(devices []DeviceType) {
	f.kinds = make([]floorKind, len(devices))
	for d := range devices {
		per := max(devices[d].PerServer, 1)
		k := floorKind{perServer: per, taken: make([]bool, devices[d].Count), idle: make([]int, (devices[d].Count+per-1)/per)}
		for g := range k.taken {
			k.idle[g/per]++
		}
		f.kinds[d] = k
	}
}

// free releases the devices of a tenant.
func (f *floor) free(t *tenant) {
	k := &f.kinds[t.device]
	for _, g := range t.where {
		k.taken[g] = false
		k.idle[int(g)/k.perServer]++
	}
}

// take allocates devices: those of last if all of them are free, else on as few servers as possible, preferring
// servers that are left with the fewest free devices. spread reports that more servers are used than the number of
// devices requires. O(servers · log servers).
func (f *floor) take(device, gpus int, where []int32, last spot) (taken []int32, spread bool) {
	k := &f.kinds[device]
	if last.device == device && len(last.where) == gpus && !slices.ContainsFunc(last.where, func(g int32) bool { return k.taken[g] }) {
		where = append(where, last.where...)
		for _, g := range where {
			k.take(int(g))
		}
	} else {
		where = f.fresh(k, gpus, where)
	}
	servers := 1
	for i := 1; i < len(where); i++ {
		if int(where[i])/k.perServer != int(where[i-1])/k.perServer {
			servers++
		}
	}
	return where, servers > (gpus+k.perServer-1)/k.perServer
}

func (k *floorKind) take(g int) {
	k.taken[g] = true
	k.idle[g/k.perServer]--
}

// fresh allocates devices on the tightest servers.
func (f *floor) fresh(k *floorKind, gpus int, where []int32) []int32 {
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
func (k *floorKind) tightest(gpus int) int {
	best := 0
	for s, n := range k.idle {
		switch b := k.idle[best]; {
		case n == gpus:
			return s
		case n > gpus && (b < gpus || n < b), n < gpus && n > b:
			best = s
		}
	}
	return best
}
