package simulate

import (
	"slices"
	"testing"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/place"
)

// TestReadBatchOfMetis checks that the names of embedded batches match those of the package.
func TestReadBatchOfMetis(t *testing.T) {
	batches, err := place.MetisBatches(300)
	if err != nil {
		t.Fatal(err)
	}
	got, description, err := readBatch((&cli.Env{}).Path, "metis:300:7", nil)
	if err != nil || !slices.Equal(got, batches[7]) || description != "group 7 of 300 containers of Metis" {
		t.Errorf("%v, %q, %v", got, description, err)
	}
}
