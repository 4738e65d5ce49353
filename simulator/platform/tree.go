package platform

// Tree is a computer of cores: clusters of nodes, nodes of processors, processors of cores. It does not change while it is used,
// so several goroutines may. Cores are numbered from 0 in the order in which clusters, nodes, processors and cores come.
type Tree struct {
	Clusters   []Subcluster
	Nodes      []Node
	Processors []Processor
	Cores      int
	// Reference is the mean speed of a core, GFLOPS: that to which requested times refer.
	Reference float64
	Global    Link // between clusters
	// ProcessorOf is the processor of each core.
	ProcessorOf []int32
}

// Subcluster is a group of nodes behind one router.
type Subcluster struct {
	Name         string
	Local        Link // of each node
	First, Nodes int  // its nodes are First … First+Nodes−1
}

// Node is a machine: what its cores share is memory.
type Node struct {
	Type              string
	Cluster           int
	Memory            float64 // MB of 10⁶ bytes
	First, Processors int     // its processors are First … First+Processors−1
}

// Processor is a socket: what its cores share is bandwidth to memory.
type Processor struct {
	Type         string
	Node         int
	Bandwidth    float64 // GB/s, of all its cores together
	GFLOPS       float64 // of one core at full speed
	Watts        float64 // of one core at work
	First, Cores int     // its cores are First … First+Cores−1
}

// Link is a kind of network link.
type Link struct {
	Type      string
	Bandwidth string // as SimGrid writes it: "10.0Gbps"
	Latency   string // "0us"
}
