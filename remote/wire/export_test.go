package wire

import (
	"google.golang.org/grpc/encoding"
)

// Codec is the codec, for tests that look at its bytes.
func Codec() encoding.CodecV2 { return codec{} }

// MaxHeader is the bound of an encoded header.
const MaxHeader = maxHeader
