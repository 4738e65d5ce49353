package metis

// Names for tests outside the package.
var Baselines = baselines

const BestRPS = bestRPS

var FromTable = fromTable

type MedeaOptions = medeaOptions
type RuleOptions = ruleOptions

var PlaceMedea = placeByMedea
