"""The bucket of each sealed record of a member, and the outcomes of its contributions."""
