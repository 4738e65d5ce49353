// Package hdeeprm decides as HDeepRM does: pairs of a job policy and a core policy, chosen by an agent that sees queue and machine.
package hdeeprm
