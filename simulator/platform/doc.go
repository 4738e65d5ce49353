// Package platform describes the machines of a simulated cluster.
package platform
