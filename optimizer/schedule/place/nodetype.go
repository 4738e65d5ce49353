package place

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// EmbeddedData is the name of the embedded data of Metis, in place of a file.
const EmbeddedData = "metis"

// Largest returns the largest number of containers in a sample.
func (s *Samples) Largest() int {
	most := 0
	for _, counts := range s.Counts {
		n := 0
		for _, k := range counts {
			n += int(k)
		}
		most = max(most, n)
	}
	return most
}

// LoadTable reads a throughput table, or returns the embedded one if name is EmbeddedData, and scales it by speed;
// capacity 0 keeps the capacity of the table. path returns the path of a file named by the user.
func LoadTable(name string, path func(string) string, capacity int, speed float64) (*Table, error) {
	t := MetisTable()
	if name != EmbeddedData {
		s, err := ReadSamples(path(name))
		if err != nil {
			return nil, err
		}
		capacity = cmp.Or(capacity, s.Largest())
		if t, err = s.Table(capacity); err != nil {
			return nil, fmt.Errorf("%s: %w; a forest (--predictor forest) predicts the others", name, err)
		}
	}
	if capacity > t.Capacity() {
		return nil, fmt.Errorf("%s has patterns of up to %d containers, not of %d; a forest (--predictor forest) predicts them", name, t.Capacity(), capacity)
	}
	if capacity == 0 || capacity == t.Capacity() {
		capacity = t.Capacity()
		if speed == 1 {
			return t, nil
		}
	}
	return NewTable(t.Apps(), capacity, func(counts []uint8, rps []float64) {
		for a, v := range t.RPS(t.Index(counts)) {
			rps[a] = speed * v
		}
	})
}

// nodeTypeColumns lists the columns of a file of node types; the first two are required.
var nodeTypeColumns = []string{"name", "count", "table", "speed", "cost", "capacity"}

// ReadNodeTypes reads a CSV file of node types with the columns name, count and optionally table (see LoadTable), speed
// (a factor on throughputs), cost and capacity. path returns the path of a table named in the file.
func ReadNodeTypes(file string, path func(string) string) ([]NodeType, error) {
	fail := func(format string, args ...any) ([]NodeType, error) {
		return nil, fmt.Errorf("read %s: "+format, append([]any{filepath.Base(file)}, args...)...)
	}
	f, err := Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := csv.NewReader(f)
	head, err := in.Read()
	if err != nil {
		return fail("head: %w", err)
	}
	column := map[string]int{}
	for i, name := range head {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(nodeTypeColumns, name) {
			return fail("column %q: unknown, want %s", name, strings.Join(nodeTypeColumns, ", "))
		}
		column[name] = i
	}
	for _, name := range nodeTypeColumns[:2] {
		if _, ok := column[name]; !ok {
			return fail("no column %q", name)
		}
	}
	var out []NodeType
	for {
		row, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fail("%w", err)
		}
		t, err := parseNodeType(path, func(name string) string {
			if i, ok := column[name]; ok {
				return strings.TrimSpace(row[i])
			}
			return ""
		})
		if err != nil {
			line, _ := in.FieldPos(0)
			return fail("line %d: %w", line, err)
		}
		if out != nil && !slices.Equal(t.Table.Apps(), out[0].Table.Apps()) {
			line, _ := in.FieldPos(0)
			return fail("line %d: the table has apps %s, the first has %s", line, strings.Join(t.Table.Apps(), ", "), strings.Join(out[0].Table.Apps(), ", "))
		}
		out = append(out, t)
	}
	if out == nil {
		return fail("no node types")
	}
	return out, nil
}

// parseNodeType parses a line of a file of node types.
func parseNodeType(path func(string) string, cell func(string) string) (t NodeType, err error) {
	t.Name = cell("name")
	if t.Count, err = strconv.Atoi(cell("count")); err != nil || t.Count < 0 {
		return t, fmt.Errorf("count %q: want a whole number that is not negative", cell("count"))
	}
	parse := func(name string, otherwise float64) float64 {
		v := otherwise
		if text := cell(name); text != "" && err == nil {
			if v, err = strconv.ParseFloat(text, 64); err != nil || !(v >= 0) || math.IsInf(v, 1) {
				err = fmt.Errorf("%s %q: want a number that is not negative", name, text)
			}
		}
		return v
	}
	speed, capacity := parse("speed", 1), parse("capacity", 0)
	t.Cost = parse("cost", 0)
	if err == nil && (capacity != math.Trunc(capacity) || capacity > 255) {
		err = fmt.Errorf("capacity %v: want a whole number up to 255", capacity)
	}
	if err != nil {
		return t, err
	}
	t.Table, err = LoadTable(cmp.Or(cell("table"), EmbeddedData), path, int(capacity), speed)
	return t, err
}

// SetExisting sets the containers that already run: a row of counts per node.
func (p *Problem) SetExisting(rows [][]int) error {
	if len(rows) != p.Nodes() {
		return fmt.Errorf("%d rows for %d nodes", len(rows), p.Nodes())
	}
	typeOf := p.TypeOf()
	for n, counts := range rows {
		table := p.Types[typeOf[n]].Table
		if len(counts) != len(table.Apps()) {
			return fmt.Errorf("node %d: %d counts, the table has %d apps", n+1, len(counts), len(table.Apps()))
		}
		node, size := make([]uint8, len(counts)), 0
		for a, k := range counts {
			if size += k; size > table.Capacity() {
				return fmt.Errorf("node %d: more containers than its capacity of %d", n+1, table.Capacity())
			}
			node[a] = uint8(k)
		}
		p.Existing = append(p.Existing, node)
	}
	return nil
}

// Room returns the number of containers that the nodes can hold.
func (p *Problem) Room() int {
	room := 0
	for _, t := range p.Types {
		room += t.Count * t.Table.Capacity()
	}
	return room
}

// ParseObjective parses one word, or weights such as rps=1,vacant=0.5.
func ParseObjective(text string) (Objective, error) {
	var o Objective
	weights := map[string]*float64{"rps": &o.RPS, "slo": &o.SLO, "vacant": &o.Vacant, "cost": &o.Cost, "violations": &o.Missed}
	for _, part := range strings.Split(text, ",") {
		name, value, weighted := strings.Cut(strings.TrimSpace(part), "=")
		w := weights[name]
		if w == nil {
			return o, fmt.Errorf("objective %q: want rps, slo, vacant, cost, violations, each once, or weights such as rps=1,vacant=0.5", text)
		}
		delete(weights, name)
		*w = 1
		if weighted {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
				return o, fmt.Errorf("objective %q: want a weight other than 0 for %s", text, name)
			}
			*w = v
		}
	}
	return o, nil
}
