package math

import "github.com/edl-go/edl/ops"

// in and out describe a slot of one tensor.
func in(name, doc string) []ops.Slot  { return []ops.Slot{{Name: name, Doc: doc}} }
func out(name, doc string) []ops.Slot { return []ops.Slot{{Name: name, Doc: doc}} }
