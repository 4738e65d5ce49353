// Package analysis tells what finished trainings have in common: statistics, scaling, the best configuration of each model.
package analysis
