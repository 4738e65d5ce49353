//go:build highs && cgo

package solve

import _ "github.com/bartolsthoorn/gohighs/highs"
