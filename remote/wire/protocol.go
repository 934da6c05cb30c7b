package wire

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
)

// Protocol is the number of what listeners, keepers, nodes and roles say to each other, and of how roles lay out what they share: the messages, their order, and slices of variables. It grows by one
// with each change after which two builds do not understand each other. Builds that have no number, which are older, have 0.
const Protocol = 1

// SameProtocol refuses what speaks another protocol than this build: where names it, build is its name, and do says what a user can do about it.
func SameProtocol(where string, protocol uint32, build, do string) error {
	if protocol == Protocol {
		return nil
	}
	if build == "" {
		build = "an older one, without a name"
	}
	return fault.E(fault.Unsupported, fault.At(where), fault.Gotf("protocol %d, of the build %s", protocol, build), fault.Wantf("protocol %d, of this build %s", Protocol, thisbuild.Name()), fault.Hint(do))
}
