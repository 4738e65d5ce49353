// Package gradient learns policies by their gradient: REINFORCE, advantage actor-critic, and proximal policy optimisation, for
// scalar rewards, masked actions, and policies that score each of a number of rows by the same small network.
//
// It knows nothing of jobs: what is decided on comes as an Environment.
package gradient
