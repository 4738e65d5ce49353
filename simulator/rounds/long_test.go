package rounds_test

import "flag"

// long has tests take their long form too: more load, more policies and both mechanisms, in a minute or so.
//
//	go test ./simulator/rounds -long
var long = flag.Bool("long", false, "also the long form of tests")
