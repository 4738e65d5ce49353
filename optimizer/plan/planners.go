package plan

// Planners are the planners known, by the name that --planner takes. A new planner is one file and one line here.
var Planners = map[string]Planner{
	"bandit": Bandit{},
	"model":  Model{},
	"morl":   MORL{},
	"rules":  Rules{},
	"static": Static{},
}
