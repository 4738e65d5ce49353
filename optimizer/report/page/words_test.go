package page

import (
	"math"
	"testing"
)

func TestWords(t *testing.T) {
	inf := math.Inf(1)
	cases := map[string][2]string{ // what → got, want
		"no duration":       {Duration(nan), NoData},
		"endless":           {Duration(inf), NoData},
		"zero":              {Duration(0), "0 s"},
		"milliseconds":      {Duration(.0123), "0.0123 s"},
		"just below 10":     {Duration(9.996), "10 s"},
		"just below 60":     {Duration(59.96), "1 m 00 s"},
		"minutes":           {Duration(185), "3 m 05 s"},
		"rounds to an hour": {Duration(3599.7), "1 h 00 m"},
		"hours":             {Duration(7500), "2 h 05 m"},
		"days":              {Duration(3*86400 + 4*3600), "3 d 04 h"},
		"negative":          {Duration(-5), "-5 s"},
		"no money":          {USD(nan), NoData},
		"nothing":           {USD(0), "$0.00"},
		"cents":             {USD(12.345), "$12.35"},
		"under a cent":      {USD(.00214), "$0.00214"},
		"a round cent":      {USD(.01), "$0.01"},
		"half a dollar":     {USD(.5), "$0.50"},
		"thousands":         {USD(1234567.891), "$1,234,567.89"},
		"carry":             {USD(1999.999), "$2,000.00"},
		"refund":            {USD(-3), "-$3.00"},
		"tiny":              {USD(.0000123), "$0.0000123"},
		"tiny and round":    {USD(.000062), "$0.000062"},
		"next to nothing":   {USD(1.5e-12), "$1.5e-12"},
		"memory":            {GiB(1.5), "1.50 GiB"},
		"little memory":     {GiB(.02), "20.5 MiB"},
		"at the border":     {GiB(.1), "0.100 GiB"},
		"no memory":         {GiB(0), "0 GiB"},
		"unknown memory":    {GiB(nan), NoData},
		"steps":             {Rate("steps/s")(27), "27.0 steps/s"},
		"samples":           {Rate("")(656), "656 samples/s"},
		"whole":             {Count(40), "40"},
		"not whole":         {Count(1.5), "1.50"},
		"big":               {Count(101770), "101,770"},
		"negative and big":  {Thousands(-101770), "-101,770"},
		"no negative zero":  {Thousands(-.3), "0"},
		"no share":          {Share(-.004), "0 %"},
		"more":              {Change(12.34), "+12.3 %"},
		"less":              {Change(-.44), "−0.4 %"},
		"less than shown":   {Change(-.04), "0.0 %"},
		"more than shown":   {Change(.04), "0.0 %"},
		"a multiple":        {Change(1790), "18.9 times"},
		"unknown change":    {Change(nan), NoData},
		"no minus sign":     {Fixed(-.004, 2), "0.00"},
		"a minus sign":      {Fixed(-.006, 2), "-0.01"},
		"escape sequence":   {Clean("a\x1b[31mb"), "a·[31mb"},
		"right to left":     {Clean("a\u202eb"), "ab"},
		"lines":             {Clean(" a\n\tb  c "), "a b c"},
		"not UTF-8":         {Clean("a\xffb"), "a·b"},
		"first letter":      {Letter(0), "A"},
		"last letter":       {Letter(25), "Z"},
		"27th letter":       {Letter(26), "AA"},
		"28th letter":       {Letter(27), "AB"},
		"52nd letter":       {Letter(51), "AZ"},
		"53rd letter":       {Letter(52), "BA"},
	}
	for name, c := range cases {
		if got := PlainBlanks(c[0]); got != c[1] {
			t.Errorf("%s: %q, want %q", name, got, c[1])
		}
	}
}
