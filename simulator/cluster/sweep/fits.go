package sweep

import (
	"fmt"

	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// Fits returns an error that names the first job that is larger than every device type of a cluster; a job runs on
// devices of a single type. An unlimited generator with multi-device jobs may request up to eight devices.
func Fits(c *cluster.Config) error {
	most, name := 0, ""
	for _, d := range c.Devices {
		if d.Count > most {
			most, name = d.Count, d.Name
		}
	}
	jobs := c.Jobs
	if c.Generate != nil {
		if !c.Generate.MultiGPU || most >= largestDrawn {
			return nil
		}
		if c.Total == 0 {
			return fmt.Errorf("jobs on up to %d devices of one type are drawn: the cluster has at most %d (%s)", largestDrawn, most, name)
		}
		table := c.Throughputs
		if table == nil {
			table = workload.GavelTable()
		}
		g, err := workload.NewGenerator(*c.Generate, table)
		if err != nil {
			return err
		}
		jobs = g.Take(c.Total)
	}
	for i := range jobs {
		if jobs[i].GPUs > most {
			return fmt.Errorf("job %d asks for %d devices of one type: the cluster has at most %d (%s)", jobs[i].ID, jobs[i].GPUs, most, name)
		}
	}
	return nil
}

// largestDrawn is the maximum number of devices of a generated job.
const largestDrawn = 8
