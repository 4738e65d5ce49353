package queue

// Names for tests outside the package.
const Asleep = asleep

type Fit = fit
