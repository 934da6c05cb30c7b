package layers

import _ "github.com/edl-go/edl/ops/all" // shapes follow from the registered ops, so building needs all of them
