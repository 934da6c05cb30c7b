package program

import (
	"strings"

	"github.com/edl-go/edl/proto/framework"
)

// String returns Fluid's name of the kind in lower case, such as "lod_tensor", and the number of a kind that Fluid does not have.
func (k VarKind) String() string { return strings.ToLower(framework.VarType_Type(k).String()) }
