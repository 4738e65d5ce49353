package monitor

import _ "google.golang.org/protobuf/encoding/protowire"
