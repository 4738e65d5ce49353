package plan

// Planners is the registry of planners by the name accepted by --planner. A new planner is one file and one line
// here.
var Planners = map[string]Planner{
	"bandit": banditPlanner{},
	"model":  Model{},
	"morl":   MORL{},
	"rules":  rules{},
	"static": Static{},
}
