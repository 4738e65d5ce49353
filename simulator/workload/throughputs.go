package workload

// Throughputs are measured steps per second of job types on device types, alone and beside another job.
type Throughputs struct{}

// Devices are the device types of the table, sorted.
func (t *Throughputs) Devices() []string { return nil }

// Types are the job types of the table, in the order of the table.
func (t *Throughputs) Types() []string { return nil }

// Alone is steps per second of a whole job on so many devices of a type; 0 when it does not fit or was not measured.
func (t *Throughputs) Alone(device, job string, gpus int) float64 { return 0 }

// Beside is steps per second of two jobs that share the same devices, both on so many; ok is false when the table does not
// have the pair. 0 when they do not fit together.
func (t *Throughputs) Beside(device, a, b string, gpus int) (ra, rb float64, ok bool) {
	return 0, 0, false
}
