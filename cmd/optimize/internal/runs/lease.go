package runs

import (
	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/observe"
)

func leaseCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		GroupID: cli.Cluster, Use: "lease-py", Short: "Print the Python module by which a script follows its lease", Args: cobra.NoArgs,
		Long: `Print the Python module by which a script follows the lease of its devices: one file, standard library only.

  from optimize_lease import Lease

  lease = Lease(loader)
  state = lease.load(load_checkpoint, path)
  for epoch in range(start, epochs):
      for batch in lease:          # ends with the lease, after a batch
          ...
      if lease.ended:
          break
  lease.save(save_checkpoint, path)
  if lease.ended:
      lease.leave()                # exit code 75
  lease.complete()

Without a lease the iterator passes the data through. GavelIterator has the interface of Gavel's iterator.`,
		Example: `  optimize lease-py > optimize_lease.py`,
		RunE: func(*cobra.Command, []string) error {
			_, err := e.Stdout.Write(observe.Python())
			return err
		},
	}
}
