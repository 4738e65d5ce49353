package platform

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Host is a computing host of a Batsim platform; it runs a part of one job at a time.
type Host struct {
	Name string
	Zone string // innermost named zone
	// Speeds are the speeds of its power states, in operations per second.
	Speeds []float64
	// Idle and Full are the powers of its states in W; nil if unknown.
	Idle, Full []float64
	PState     int // initial power state
}

// readXML reads the parts of a SimGrid platform that Batsim uses: hosts, including those of <cluster> and <cabinet>,
// with speeds, power states and watt_per_state. Hosts are returned in Batsim's numbering order (by name, with numbers
// in names by value), without the master host (master_host, or a role of "master"). Links and routes are ignored.
func readXML(r io.Reader) ([]Host, error) {
	x := &xmlReader{names: map[string]bool{}}
	d := xml.NewDecoder(r)
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = x.take(token)
		}
		if err != nil {
			line, _ := d.InputPos()
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if !x.platform {
		return nil, errors.New("no <platform>")
	}
	hosts := slices.DeleteFunc(x.hosts, func(h Host) bool { return h.Name == "master_host" || x.masters[h.Name] })
	if len(hosts) == 0 {
		return nil, errors.New("no hosts but the master")
	}
	slices.SortStableFunc(hosts, func(a, b Host) int { return compareNames(a.Name, b.Name) })
	return hosts, nil
}

// xmlReader is the state of readXML between the tokens of the file.
type xmlReader struct {
	platform bool
	zones    []string
	hosts    []Host
	names    map[string]bool
	masters  map[string]bool
	first    int // index of the first host of the open element
	open     int // depth of elements inside a host or cluster; 0 outside
}

// take processes one token, tracking zones and the depth inside hosts and clusters.
func (x *xmlReader) take(token xml.Token) error {
	switch e := token.(type) {
	case xml.StartElement:
		return x.start(e)
	case xml.EndElement:
		switch {
		case x.open > 0:
			x.open--
		case (e.Name.Local == "zone" || e.Name.Local == "AS") && len(x.zones) > 0:
			x.zones = x.zones[:len(x.zones)-1]
		}
	}
	return nil
}

// start processes an opening element. Inside a host, cluster or cabinet only <prop> is read; a cluster or cabinet adds
// a host for each number of its radical and is their zone. <include> and <peer> are not supported.
func (x *xmlReader) start(e xml.StartElement) error {
	attr := map[string]string{}
	for _, a := range e.Attr {
		attr[a.Name.Local] = strings.TrimSpace(a.Value)
	}
	if x.open > 0 {
		x.open++
		if e.Name.Local == "prop" {
			return x.property(attr["id"], attr["value"])
		}
		return nil
	}
	switch e.Name.Local {
	case "platform":
		x.platform = true
	case "zone", "AS":
		x.zones = append(x.zones, attr["id"])
	case "host":
		x.open, x.first = 1, len(x.hosts)
		return x.add(attr, attr["id"])
	case "cluster", "cabinet":
		x.open, x.first = 1, len(x.hosts)
		numbers, err := radical(attr["radical"])
		if err != nil {
			return fmt.Errorf("%s %q: %w", e.Name.Local, attr["id"], err)
		}
		x.zones = append(x.zones, attr["id"])
		defer func() { x.zones = x.zones[:len(x.zones)-1] }()
		for _, n := range numbers {
			if err := x.add(attr, attr["prefix"]+strconv.Itoa(n)+attr["suffix"]); err != nil {
				return err
			}
		}
	case "include", "peer":
		return fmt.Errorf("<%s> is not read here", e.Name.Local)
	}
	return nil
}

// add adds a host with the speeds and the initial power state of its attributes.
func (x *xmlReader) add(attr map[string]string, name string) error {
	speed := attr["speed"]
	if speed == "" {
		speed = attr["power"] // before version 4
	}
	h := Host{Name: name}
	if name == "" || x.names[name] {
		return fmt.Errorf("host %q: a name is needed, and only once", name)
	}
	if len(x.hosts) >= maxCores {
		return fmt.Errorf("more than %d hosts", maxCores)
	}
	for part := range strings.SplitSeq(speed, ",") {
		v, err := parseSpeed(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("host %q: %w", name, err)
		}
		h.Speeds = append(h.Speeds, v)
	}
	if p := attr["pstate"]; p != "" {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v >= len(h.Speeds) {
			return fmt.Errorf("host %q: power state %q of %d", name, p, len(h.Speeds))
		}
		h.PState = v
	}
	for _, z := range x.zones {
		if z != "" {
			h.Zone = z
		}
	}
	x.names[name] = true
	x.hosts = append(x.hosts, h)
	return nil
}

// property applies a <prop> to the hosts of the open element.
func (x *xmlReader) property(id, value string) error {
	for i := x.first; i < len(x.hosts); i++ {
		h := &x.hosts[i]
		switch id {
		case "role":
			if strings.Contains(value, "master") {
				if x.masters == nil {
					x.masters = map[string]bool{}
				}
				x.masters[h.Name] = true
			}
		case "watt_per_state", "wattage_per_state":
			h.Idle, h.Full = nil, nil
			for state := range strings.SplitSeq(value, ",") {
				idle, full, err := parseWatts(state)
				if err != nil {
					return fmt.Errorf("host %q: %s: %w", h.Name, id, err)
				}
				h.Idle, h.Full = append(h.Idle, idle), append(h.Full, full)
			}
			if len(h.Full) != len(h.Speeds) {
				return fmt.Errorf("host %q: %s has %d states, its speed %d", h.Name, id, len(h.Full), len(h.Speeds))
			}
		}
	}
	return nil
}

// parseWatts parses the power of one state, "idle:full". SimGrid also has "idle:one core:all cores" and a single full
// power.
func parseWatts(text string) (idle, full float64, err error) {
	parts := strings.Split(text, ":")
	idle, err = strconv.ParseFloat(strings.TrimSpace(parts[0]), 64)
	if err == nil {
		full, err = strconv.ParseFloat(strings.TrimSpace(parts[len(parts)-1]), 64)
	}
	if err != nil || len(parts) > 3 || !(idle >= 0 && full >= 0) || max(idle, full) > maxQuantity {
		return 0, 0, fmt.Errorf("%q is not idle:full in W", strings.TrimSpace(text))
	}
	return idle, full, nil
}

// parseSpeed parses a speed in SimGrid notation: "2.5Gf", "100Mf", "1e9".
func parseSpeed(text string) (float64, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzGMTPEZY")
	if n := len(digits); n > 0 && digits[n-1] == 'E' {
		digits = digits[:n-1]
	}
	scale, ok := map[string]float64{"": 1, "f": 1, "kf": 1e3, "Mf": 1e6, "Gf": 1e9, "Tf": 1e12, "Pf": 1e15, "Ef": 1e18,
		"flops": 1, "kiloflops": 1e3, "megaflops": 1e6, "gigaflops": 1e9, "teraflops": 1e12, "petaflops": 1e15,
	}[text[len(digits):]]
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || !(v > 0) || v*scale > 1e21 {
		return 0, fmt.Errorf("%q is not a speed, as 2.5Gf is", text)
	}
	return v * scale, nil
}

// radical returns the numbers of a radical such as "0-99,104".
func radical(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 0 || b < a || b-a >= maxCores || len(out) > maxCores {
			return nil, fmt.Errorf("radical %q: want numbers and ranges as 0-99,104", text)
		}
		for n := a; n <= b; n++ {
			out = append(out, n)
		}
	}
	return out, nil
}

// compareNames orders names as Batsim does: digits in them by the value of their number.
func compareNames(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx > 0 && dy > 0 {
			nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
			if c := len(nx) - len(ny); c != 0 {
				return c
			}
			if c := strings.Compare(nx, ny); c != 0 {
				return c
			}
			x, y = x[dx:], y[dy:]
			continue
		}
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		x, y = x[1:], y[1:]
	}
	if c := len(x) - len(y); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// HostTree returns a tree of hosts: one cluster per run of equal zones, every host a node with one processor of one
// core, at the speed and full power of its first state (0 W if unknown). A Batsim platform contains neither memory nor
// bandwidth: both are +Inf, so that they never limit a job.
func HostTree(hosts []Host) (*Tree, error) {
	if len(hosts) == 0 {
		return nil, errors.New("platform: no hosts")
	}
	t := &Tree{}
	for i, h := range hosts {
		if len(h.Speeds) == 0 {
			return nil, fmt.Errorf("platform: host %q has no speed", h.Name)
		}
		if i == 0 || h.Zone != hosts[i-1].Zone {
			t.Clusters = append(t.Clusters, Subcluster{Name: h.Zone, First: i})
		}
		k := len(t.Clusters) - 1
		t.Clusters[k].Nodes++
		t.Nodes = append(t.Nodes, Node{Type: h.Name, Cluster: k, Memory: math.Inf(1), First: i, Processors: 1})
		p := Processor{Type: h.Name, Node: i, Bandwidth: math.Inf(1), GFLOPS: h.Speeds[0] / 1e9, Cores: 1}
		if len(h.Full) > 0 {
			p.Watts = h.Full[0]
		}
		t.addProcessor(p)
	}
	t.index()
	return t, nil
}
