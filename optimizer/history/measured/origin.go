package measured

// origin is the source of a table.
type origin struct {
	Title   string // description
	Where   string // repository and path
	Commit  string
	Licence string // SPDX identifier, none if the repository has no licence
	Machine string // machine of all measurements; "" if unknown or several
}

// words formats the origin as the Source of an entry.
func (o origin) words() string {
	s := o.Title + ", " + o.Where + " @ " + o.Commit
	if o.Licence == none {
		s += ", no licence"
	}
	return s
}

const elasticFlowCommit = "04a0109a6acdd7d89f4cb31b6a6a7a128bee6bb0"

// origins by the first part of an entry's id; the T4 tables of "elasticflow" have a key of their own.
var origins = map[string]origin{
	"pollux": {"Pollux (OSDI 2021), measured step times, 4 T4 a node",
		"pkusys/ElasticFlow pollux/pollux_simulator/traces", elasticFlowCommit, "Apache-2.0", "aws:g4dn.12xlarge"},
	"sia": {"Sia (SOSP 2023), measured step times",
		"siasosp23/artifacts sia-simulator", "aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70", none, ""},
	"gavel": {"Gavel (OSDI 2020), isolated rates of simulation_throughputs.json, all GPUs in one machine",
		"stanford-futuredata/gavel scheduler", "c4fa40097339e9608ab71fd64c8bdea96a5e4a4c", "MIT", ""},
	"elasticflow": {"ElasticFlow (ASPLOS 2023), measured iterations per second, 8 A100 a node",
		"pkusys/ElasticFlow", elasticFlowCommit, "Apache-2.0", ""},
	elasticFlowT4: {"ElasticFlow (ASPLOS 2023), iterations per second computed from the step times of Pollux, 4 T4 a node",
		"pkusys/ElasticFlow", elasticFlowCommit, "Apache-2.0", ""},
	"mlperf-v4.1": {"MLPerf Training v4.1, time to train computed from the published logs (unofficial)",
		"mlcommons/training_results_v4.1", "b87b9e396f771345d4ef122ba33456304f15228d", none, ""},
	"mlperf-v5.0": {"MLPerf Training v5.0, time to train computed from the published logs (unofficial)",
		"mlcommons/training_results_v5.0", "0fdc28f013256aea84fa36fdaf1e0fa46094b18c", "Apache-2.0", ""},
	medians: {"MLPerf Training v5.0, median over submitters of times to train computed from the published logs (unofficial)",
		"mlcommons/training_results_v5.0", "0fdc28f013256aea84fa36fdaf1e0fa46094b18c", "Apache-2.0", ""},
}

const (
	none          = "none"
	elasticFlowT4 = "elasticflow-t4"
	medians       = "mlperf"
)
