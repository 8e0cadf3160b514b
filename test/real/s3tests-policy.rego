# What s3tests.sh runs with: every request, an anonymous one too, may go on to the cluster, which decides.
package headgate.authz

decision := {"allow": true}
