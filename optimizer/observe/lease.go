package observe

// The Python module of leases is that by which a training script follows the lease of its devices: an iterator that
// ends its loop on a batch boundary when the lease ends. It is not the scheduler that grants leases.
//
//	os.Stdout.Write(observe.Python())

import _ "embed"

//go:embed optimize_lease.py
var python []byte

// Python returns the source of the module optimize_lease: one file, standard library only.
func Python() []byte { return python }
