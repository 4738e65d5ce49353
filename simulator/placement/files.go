package placement

// Samples are measured patterns, as they come: some may be missing, some be there more than once.
type Samples struct {
	Apps   []string
	Counts [][]uint8   // containers of each app
	RPS    [][]float64 // throughput of one container of each app, relative to one alone; NaN where there is none
}

// ReadSamples reads measurements from an .npz file of Metis (arrays alloc and rps) or a CSV file (columns n_* and rps_*).
func ReadSamples(path string) (*Samples, error) { return nil, nil }

// Table is the table of all patterns; the error names patterns that are missing. Of several rows of a pattern the last one holds.
func (s *Samples) Table(capacity int) (*Table, error) { return nil, nil }

// ReadBatches reads batches, one row of counts each, from an .npz file of Metis (array batch_set) or a CSV file with or without a
// head.
func ReadBatches(path string) ([][]int, error) { return nil, nil }
