// Package all registers every op: a program imports it once, for its effect.
package all

import (
	_ "github.com/edl-go/edl/ops/comm"
	_ "github.com/edl-go/edl/ops/control"
	_ "github.com/edl-go/edl/ops/detection"
	_ "github.com/edl-go/edl/ops/fileio"
	_ "github.com/edl-go/edl/ops/math"
	_ "github.com/edl-go/edl/ops/nn"
	_ "github.com/edl-go/edl/ops/optim"
	_ "github.com/edl-go/edl/ops/random"
	_ "github.com/edl-go/edl/ops/reader"
	_ "github.com/edl-go/edl/ops/sequence"
	_ "github.com/edl-go/edl/ops/sparse"
)
