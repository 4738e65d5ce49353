package placement

// NodeType is so many equal nodes.
type NodeType struct {
	Name  string
	Count int
	Table *Table  // how fast containers are on it; the apps are those of every other type
	Cost  float64 // of a node that is in use, in whatever unit; 0 is free
}

// Problem is a batch of containers for a cluster.
type Problem struct {
	Types []NodeType // nodes are numbered through all types, in order
	Batch []int      // containers of each app that are to be placed
	// Existing is what runs already and does not move, one row of counts a node; nil is nothing.
	Existing [][]uint8
	// Constraints are wishes of apps about their neighbours; they are counted, and methods may minimise or bound them.
	Constraints []Constraint
	// SLO is the throughput of a container, relative to one alone, from which on it counts as served; 0 is 0.95.
	SLO float64
}

// Nodes is the number of nodes.
func (p *Problem) Nodes() int { return 0 }

// Validate names all that is wrong, also a batch that is too large for the cluster.
func (p *Problem) Validate() error { return nil }

// Constraint is a wish of each container of App about the containers of Neighbour on its node (others than itself): at most
// Threshold of them, or at least that many when AtLeast is set.
type Constraint struct {
	App, Neighbour int
	AtLeast        bool
	Threshold      int
	Weight         float64 // of a violation; 0 is 1
}

// Placement is the number of containers of each app on each node, existing ones included.
type Placement [][]uint8

// Worth is what a placement is worth.
type Worth struct {
	MeanRPS  float64 // throughput a container, relative to one alone; the mean over all containers
	SLOShare float64 // of containers whose throughput is at least the SLO
	// Magnitude is the weighted sum over constraints and containers of by how much a constraint is missed (Medea's objective);
	// Instances is the number of (constraint, container) that miss one.
	Magnitude float64
	Instances int
	NodesUsed int
	Cost      float64
	Vacant    int // nodes left empty
}

// Evaluate computes what a placement is worth; the error says what is wrong with it: a node that is too full, containers that
// are missing or too many, existing ones that moved.
func (p *Problem) Evaluate(at Placement) (Worth, error) { return Worth{}, nil }

// Solution is what a method found.
type Solution struct {
	Placement Placement
	// Bound is what no placement exceeds in the method's objective, NaN when it proves nothing; Gap is (Bound − value) / Bound.
	Bound, Gap float64
	Notes      []string
}
