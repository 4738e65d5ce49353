package morl

// Names for tests outside the package.
var DefaultPreferences = defaultPreferences

type MultiPolicy = multiPolicy

var NewEnvelope = newEnvelope
var NewMulti = newMulti
var NewMultiFor = newMultiFor
var NewParetoSet = newParetoSet
var NewSimple = newSimple
