// Package transfer predicts how a training goes where it never ran, from measurements of it and of others that resemble it.
package transfer
