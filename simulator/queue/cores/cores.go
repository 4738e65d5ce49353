// Package cores simulates jobs on a platform.Tree: cores of unequal speed that share memory and bandwidth, by the resource model
// of HDeepRM.
package cores
