package wire

import (
	"strings"

	"github.com/edl-go/edl/fault"
)

// transportError is the text of an error of the transport whose fault knows the address of the peer, but not its name.
type transportError string

func (e transportError) Error() string { return string(e) }

// fromAddress is FromStatus for a caller that knows the address of the peer only.
func fromAddress(address string, err error) error {
	err = FromStatus(address, err)
	if f, ok := err.(*fault.Fault); ok && f.Where == address && f.Err != nil {
		f.Err = transportError(f.Err.Error())
	}
	return err
}

// plain leaves of what the transport says of a connection what the system said, without the address: errors name the peer before it.
func plain(message string) string {
	const quoted, dialing = `connection error: desc = "`, "transport: Error while dialing: "
	if _, inner, ok := strings.Cut(message, quoted); ok {
		if message, ok = strings.CutSuffix(inner, `"`); !ok {
			message = inner
		}
	}
	_, why, ok := strings.Cut(message, dialing)
	if !ok {
		return strings.TrimPrefix(message, "transport: ")
	}
	if dialed, rest, ok := strings.Cut(why, ": "); ok && strings.HasPrefix(dialed, "dial ") {
		why = rest
	}
	return strings.TrimPrefix(why, "connect: ")
}
