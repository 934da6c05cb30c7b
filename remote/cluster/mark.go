package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// A mark says what became of the holders of a member's key, and outlives them all. While the key is absent, joined tells a lost holder from one that
// left.
type mark struct {
	joined bool // the last holder has not left in order
	losses int  // holders before the last one that were lost
}

const (
	markedJoined = "joined"
	markedLeft   = "left"
)

// String is what is kept: "joined 2".
func (m mark) String() string {
	if m.joined {
		return fmt.Sprint(markedJoined, " ", m.losses)
	}
	return fmt.Sprint(markedLeft, " ", m.losses)
}

// markIn reads a mark. What is not one is the mark of a member that never was.
func markIn(text string) mark {
	how, digits, _ := strings.Cut(text, " ")
	losses, err := strconv.Atoi(digits)
	if err != nil || losses < 0 {
		return mark{}
	}
	return mark{joined: how == markedJoined, losses: losses}
}

// after returns how many holders have been lost by the time that there is no key.
func (m mark) after() int {
	if m.joined {
		return m.losses + 1
	}
	return m.losses
}
