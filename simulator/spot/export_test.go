package spot

// Names for tests outside the package.
type Outcome = outcome

var Ratio = ratio
var Run = run

type Stretch = stretch
type Zone = zone

var Optimum = hindsight
