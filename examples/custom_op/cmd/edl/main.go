// Command edl is EDL with the ops of this module.
package main

import (
	"os"

	_ "example.org/custom_op/ops"
	"github.com/edl-go/edl/edlcmd"
)

func main() { os.Exit(edlcmd.Main()) }
