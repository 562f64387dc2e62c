"""The sweep file, its roles and its grid."""
