package cluster

// Names for tests outside the package.
var DrawTypes = drawTypes
var ErrLimit = errLimit
var ErrNotStable = errNotStable
var FinishTimeFairness = finishTimeFairness

type PolicyError = policyError
