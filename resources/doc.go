// Package resources says what a machine offers to a training job, what a job may be given, and holds
// the job to it.
//
// It has four parts: the inventory (Discover: CPUs, memory and GPUs that may really be used, inside
// containers and quotas too; LoadHost for a machine that is only described), the choices (Allocation,
// Limits, ActionSpace), the enforcement (Enforcer: cgroup v2 or v1, CPU affinity, resource limits;
// Environ: the job's environment) and the checks (ValidateGPUs, Doctor).
//
// It decides nothing: which allocation is best is for planners. It knows no prices and starts no
// training.
//
//	host, err := resources.Discover(ctx, resources.Roots{})
//	limits := resources.DefaultLimits(host, false)
//	e, err := resources.NewEnforcer(resources.EnforceOptions{
//		RunID: "r1", Allocation: resources.Allocation{CPUs: 2, Memory: 4}, Limits: limits, Host: host,
//	})
//	defer e.Remove()
//	recipe := e.Recipe() // the job's first process calls recipe.Apply and then execs the script
package resources
