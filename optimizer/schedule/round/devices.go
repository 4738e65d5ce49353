package round

import (
	"slices"

	"trainopt/optimizer/schedule"
)

// freeDevices tracks the idle devices by type and server. Devices of a server have consecutive numbers.
type freeDevices struct {
	types []freeOfType
}

// freeOfType contains the devices of one type.
type freeOfType struct {
	perServer int
	taken     []bool
	idle      []int // number of free devices by server
}

func (f *freeDevices) init(devices []schedule.DeviceType) {
	f.types = make([]freeOfType, len(devices))
	for d := range devices {
		per := max(devices[d].PerServer, 1)
		k := freeOfType{perServer: per, taken: make([]bool, devices[d].Count), idle: make([]int, (devices[d].Count+per-1)/per)}
		for g := range k.taken {
			k.idle[g/per]++
		}
		f.types[d] = k
	}
}

// free releases the devices of a slot.
func (f *freeDevices) free(s slot) {
	k := &f.types[s.Device]
	for _, g := range s.Where {
		k.taken[g] = false
		k.idle[int(g)/k.perServer]++
	}
}

// take allocates devices: those of last if all of them are free, else on as few servers as possible, preferring
// servers that are left with the fewest free devices. spread reports that more servers are used than the number of
// devices requires. O(servers · log servers).
func (f *freeDevices) take(device, gpus int, where []int32, last *slot) (taken []int32, spread bool) {
	k := &f.types[device]
	if last.Device == device && len(last.Where) == gpus && !slices.ContainsFunc(last.Where, func(g int32) bool { return k.taken[g] }) {
		where = append(where, last.Where...)
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

func (k *freeOfType) take(g int) {
	k.taken[g] = true
	k.idle[g/k.perServer]--
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
