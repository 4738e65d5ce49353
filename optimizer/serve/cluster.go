package serve

import (
	"net/http"
	"os"
	"path/filepath"
)

// clusterDir is the folder of a live scheduler in a state directory.
const clusterDir = "cluster"

// hasCluster reports whether a live scheduler has worked in the state directory.
func (s *Server) hasCluster() bool {
	_, err := os.Stat(filepath.Join(s.options.StateDir, clusterDir, "events.jsonl"))
	return err == nil
}

func (s *Server) clusterPage(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusNotFound, "no cluster is served from this state directory")
}
