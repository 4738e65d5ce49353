// Package resources discovers the resources of a machine, describes the allocation of a training job, and enforces
// it.
//
// It has four parts: the inventory (Discover: the usable CPUs, memory and GPUs, also inside containers and quotas;
// LoadHost for a described machine), the choices (Allocation, Limits, ActionSpace), the enforcement (Enforcer: cgroup
// v2 or v1, CPU affinity, resource limits; Environ: the job's environment) and the checks (GPUCheck, Doctor).
//
// It makes no decisions: planners choose allocations. It handles no prices and starts no training.
//
//	host, err := resources.Discover(ctx, resources.Roots{})
//	limits := resources.DefaultLimits(host, false)
//	e, err := resources.NewEnforcer(resources.EnforceOptions{
//		RunID: "r1", Allocation: resources.Allocation{CPUs: 2, Memory: 4}, Limits: limits, Host: host,
//	})
//	defer e.Remove()
//	recipe := e.Recipe() // the job's first process calls recipe.Apply and then execs the script
package resources
