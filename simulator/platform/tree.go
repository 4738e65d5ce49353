package platform

// Tree is a machine of cores: clusters of nodes, nodes of processors, processors of cores. It is not modified during
// use and therefore safe for concurrent reads. Cores are numbered from 0 in the order of clusters, nodes, processors
// and cores.
type Tree struct {
	Clusters   []Subcluster
	Nodes      []Node
	Processors []Processor
	Cores      int
	// Reference is the mean speed of a core in GFLOPS, to which requested times refer.
	Reference float64
	Global    linkRate // between clusters
	// ProcessorOf is the index of the processor of each core.
	ProcessorOf []int32
}

// Subcluster is a group of nodes behind one router.
type Subcluster struct {
	Name         string
	Local        linkRate // of each node
	First, Nodes int      // its nodes are First … First+Nodes−1
}

// Node is a machine; its cores share memory.
type Node struct {
	Type              string
	Cluster           int
	Memory            float64 // MB of 10⁶ bytes
	First, Processors int     // its processors are First … First+Processors−1
}

// Processor is a socket; its cores share memory bandwidth.
type Processor struct {
	Type         string
	Node         int
	Bandwidth    float64 // GB/s, shared by all its cores
	GFLOPS       float64 // of one core at full speed
	Watts        float64 // of one core under load
	First, Cores int     // its cores are First … First+Cores−1
}

// linkRate is a type of network link.
type linkRate struct {
	Type      string
	Bandwidth string // in SimGrid notation: "10.0Gbps"
	Latency   string // "0us"
}
