// Package infer holds what the shape inference of many ops has in common: attributes that name an axis or a dtype, faults
// of attributes, arithmetic on extents that may be open, and the inference that every gradient op shares.
//
// Extents are int64 with program.Unknown for an open one. Nothing here allocates by an extent or multiplies without
// noticing an overflow, because attributes and declared dims come from outside.
package infer
