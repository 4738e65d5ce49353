package cluster_test

import "flag"

// long runs tests in their long form: more load, more policies and both mechanisms, in about a minute.
//
//	go test ./simulator/cluster -long
var long = flag.Bool("long", false, "also the long form of tests")
