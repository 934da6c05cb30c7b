package wire

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
)

// Codec is the codec, for tests that look at its bytes.
func Codec() encoding.CodecV2 { return codec{} }

// MaxHeader is the bound of an encoded header.
const MaxHeader = maxHeader

// Times after which a silent peer is given up.
const (
	PeerSilence = peerSilence
	PeerAnswer  = peerAnswer
)

// Silently is the option of connections to sockets of this machine.
var Silently = silently

// DialWith is Dial with further options, for connections that are no TCP.
func DialWith(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return dial(scheme+"test", nil, func() string { return "test" }, more...)
}
